UPDATE limpet.running SET session = 'nobody';
UPDATE limpet.hold SET held_count = 0, held_total = 0;
