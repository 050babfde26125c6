//! Real servers as processes, partitions and a nemesis, for the tests of this workspace.
