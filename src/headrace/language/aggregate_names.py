"""The names of aggregates, which `headrace.aggregate` fills in: the language knows them without their classes."""

AGGREGATES: dict[str, tuple[str, ...]] = {}  # with the names that they have in other systems
