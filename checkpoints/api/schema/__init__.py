"""The OpenAPI document, made from the shapes, the model and the URL configuration, and the pages made from it.

A new route: describe it in ``operations.py``, or in its own room with ``rooms.register``. A new field: say what it
means in ``words.py``. A new refusal: add it to ``refusals.py``, and to the operations that can answer with it. Tests
fail until all three are true of what is served.
"""
