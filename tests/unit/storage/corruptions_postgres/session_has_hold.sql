DELETE FROM limpet.hold WHERE held_count = 0;
