"""Privacy attacks by a curious server on participants' data."""
