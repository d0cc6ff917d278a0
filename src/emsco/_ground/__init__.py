"""Small helpers for every room: frozen mappings, tables for people, files written whole."""
