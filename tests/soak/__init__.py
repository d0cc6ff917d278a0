"""What stresses the product: faults, kills, floods, forged and damaged files, hostile rows."""
