"""Pages: from bytes to characters and a tree, and from these to text, main text and links."""
