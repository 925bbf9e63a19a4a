"""What a workbench project knows and does, without HTTP: storage, edits, runs, views, exports."""
