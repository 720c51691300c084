UPDATE limpet.parked SET turn = true WHERE state = 'quarantined';
