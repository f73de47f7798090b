"""The schema that a Delta log records, changed by an action of our own: deltalake has no call that widens a type.

Who reads the table by its log would else get the old types, and fail at the first value that needs the new one.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, Schema

from headrace.lake.log import Action


def schema_change(table: DeltaTable, schema: pa.Schema) -> Action | None:
    """The action that makes this the recorded schema; None if it is already."""
    wanted = Schema.from_arrow(schema).to_json()
    if table.schema().to_json() == wanted:
        return None
    said = table.metadata()
    metadata = {
        "id": str(said.id),
        "name": said.name,
        "description": said.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": wanted,
        "partitionColumns": said.partition_columns,
        "createdTime": said.created_time,
        "configuration": said.configuration,
    }
    return {"metaData": metadata}
