"""The engine of the corpora: train under watch into a folder, judge what is stored, and write the tables.

A source declares its programs, and what is true of each; `detection`, `wild`, `mutants`, `late`, `silent`,
`speed_faults`, `frameworks` and `rehearsal` are sources.
"""
