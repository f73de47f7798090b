"""The formats of events, each converted to the lines that a transport stores."""
