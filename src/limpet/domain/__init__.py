"""The nouns and rules of Limpet: standard library only, no input or output."""
