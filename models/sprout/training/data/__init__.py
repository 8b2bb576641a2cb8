"""Generators of training and evaluation conversations. Everything here is made up or general knowledge; nothing is scraped."""
