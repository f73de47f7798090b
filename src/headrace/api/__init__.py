"""The methods of a workspace and the values that clients read; `connect`, through the server or from the folder."""
