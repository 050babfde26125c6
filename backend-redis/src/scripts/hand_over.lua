-- KEYS: record. ARGV: owner and token of the lease, next owner, ttl, metadata.
-- As acquire; busy, or {3}: free, says that the lease is not held any more, and that nothing changed.
local key, now = KEYS[1], server_time()
local record = read(key, now)
if not record then return { -1 } end
if record.held and record.owner == ARGV[1] and text(record.token) == ARGV[2] then
  withdraw(key, now, record, ARGV[3])
  return grant(key, now, record, ARGV[3], tonumber(ARGV[4]), ARGV[5])
end
if record.held then return busy(now, record) end
return { 3 }
