"""`kpe demo`: one fault, one load, several producers side by side, each a process of its own.

`plan` says what happens, `play` does it, `load` is what each producer's process runs; `figures` and `story`
make numbers of what they saw; `screen`, `verdict` and `page` show them.
"""
