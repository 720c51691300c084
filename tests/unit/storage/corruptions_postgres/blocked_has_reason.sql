UPDATE limpet.parked SET since = NULL WHERE state = 'blocked';
