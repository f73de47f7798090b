"""Questions and their answers: reads the store, merges, presents. No Spark."""

from headrace.serve.answer import Answer, answer
from headrace.serve.question import Question

__all__ = ["Answer", "Question", "answer"]
