"""What keeps volumes sound and balanced: moving, merging, checking, repairing, training."""
