-- call: a call of a function of this version, and its schema.
-- purpose: templates; transaction.py and schema.py fill in the names.
-- params:  those of the function.
-- returns: the rows of the function.

-- statement: function
SELECT * FROM limpet.v1_{name}({places})

-- statement: make_schema
CREATE SCHEMA {schema}
