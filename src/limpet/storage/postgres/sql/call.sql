-- call: a function of this version, and the schema that it is in.
-- purpose: the frame; the names are filled in by transaction.py and schema.py.
-- params:  those of the function.
-- returns: its rows.

-- statement: function
SELECT * FROM limpet.v1_{name}({places})

-- statement: make_schema
CREATE SCHEMA {schema}
