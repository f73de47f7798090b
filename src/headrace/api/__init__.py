"""`connect` and what is behind it: a workspace through its server (far), or straight from its folder (near)."""
