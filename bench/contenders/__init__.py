"""The same job on other engines, each a process in an environment of its own; nothing here imports Headrace."""
