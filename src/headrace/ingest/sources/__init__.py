"""Sources without end: sockets, commands and watched folders, each sent by the one mechanism for pieces."""
