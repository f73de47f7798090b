"""Input: files, folders and requests are converted to the lines that a transport stores."""
