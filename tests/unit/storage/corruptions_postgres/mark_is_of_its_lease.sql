UPDATE limpet.running SET mark = mark + 1;
UPDATE limpet.hold SET held_total = held_total + 1 WHERE held_count > 0;
