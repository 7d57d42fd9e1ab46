"""``kpe demo``: trouble on a real cluster, made, watched, published and accounted for."""
