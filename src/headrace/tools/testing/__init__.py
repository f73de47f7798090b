"""`headrace test`: files of a workspace that give events and say what the answer is."""
