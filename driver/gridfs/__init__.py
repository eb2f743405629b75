"""GridFS: files of any size as chunks in two collections (GridFS)."""
