"""Media besides pages: the sizes of images, the length of sound and film."""
