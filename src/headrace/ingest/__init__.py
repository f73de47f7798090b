"""Where the outside world ends: files, folders and requests become the lines that a transport keeps."""
