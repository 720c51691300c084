UPDATE limpet.parked SET pending = 1 WHERE state = 'quarantined';
