"""The cases of every op, one file an op: STEM.py, found by listing this folder (case_files.py).

Reference cases are small models in which the op appears, compared with onnxruntime: functions marked @reference (qdq.py). They
give every test that goes over CASES its models. random_nodes(r) adds nodes of the op with random words, shapes and values to r
(random_nodes.py), on which runtime and simulator must agree in every byte."""
