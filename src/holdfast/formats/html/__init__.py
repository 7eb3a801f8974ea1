"""Pages: bytes to characters, characters to a tree, and from it text, main text and links."""
