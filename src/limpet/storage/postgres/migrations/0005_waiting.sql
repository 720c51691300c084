-- 0005_waiting: what waits for room on a host.
-- beside:  older code calls the same functions, and says nothing of patience: it reserves nothing for
--          callers, and is kept off by what is reserved for them.
-- callers: from here on `job` of a reservation is the session of a caller outside where its token is -1,
--          which no job has.

-- What else the last exchange answered, for who asks again.
ALTER TABLE limpet.hold
    ADD COLUMN next_at bigint,
    ADD COLUMN passed_over integer NOT NULL DEFAULT 0; -- as domain.permit.PassedOver
