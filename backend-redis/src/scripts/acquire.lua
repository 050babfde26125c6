-- KEYS: record. ARGV: owner, ttl, metadata, '1' if the caller waits.
-- {1, token} granted; {0, token, owner, left, metadata} held; {2, token, left} held by others; {-1} damaged.
local key, now = KEYS[1], server_time()
local owner, ttl = ARGV[1], tonumber(ARGV[2])
local record = read(key, now)
if not record then return { -1 } end
if record.held and record.owner == owner then
  local deadline = math.max(record.deadline, now + ttl)
  redis.call('HSET', key, 'deadline', text(deadline), 'ttl', text(math.max(record.ttl, ttl)), 'metadata', ARGV[3])
  keep(key, now, record.token, deadline)
  return { 1, text(record.token) }
end
if record.held or record.shared > now then
  if ARGV[4] == '1' then mark(key, now, math.max(record.deadline, record.shared)) end
  return busy(now, record)
end
return grant(key, now, record, owner, ttl, ARGV[3])
