"""The commands that read: find, aggregate and their kin, with the stages that reach beyond a collection."""
