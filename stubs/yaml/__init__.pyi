"""Types of what is used of PyYAML."""

from collections.abc import Iterator
from typing import Any

class Mark:
    line: int
    column: int
    index: int

class YAMLError(Exception): ...

class MarkedYAMLError(YAMLError):
    context: str | None
    context_mark: Mark | None
    problem: str | None
    problem_mark: Mark | None

class Node:
    value: Any
    start_mark: Mark
    end_mark: Mark

class ScalarNode(Node):
    value: str
    style: str | None

class SequenceNode(Node):
    value: list[Node]

class MappingNode(Node):
    value: list[tuple[Node, Node]]

class Token:
    start_mark: Mark
    end_mark: Mark

class FlowSequenceStartToken(Token): ...
class FlowSequenceEndToken(Token): ...
class FlowMappingStartToken(Token): ...
class FlowMappingEndToken(Token): ...
class SafeLoader: ...
class CSafeLoader: ...

def scan(stream: str, Loader: type[Any]) -> Iterator[Token]: ...
def compose(stream: str, Loader: type[Any]) -> Node | None: ...
