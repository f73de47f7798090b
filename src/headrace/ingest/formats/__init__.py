"""The formats that events come in, each turned into the lines that the journal keeps."""
