"""Tools beside the server: infer, doctor, testing, demo."""
