"""The tables of view versions: where partials are merged and read back."""
