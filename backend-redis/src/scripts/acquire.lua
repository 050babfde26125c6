-- KEYS: record. ARGV: owner, ttl, metadata, '1' if the caller waits, or for how long its place in the
-- queue is kept; '0' for neither.
-- {1, token} granted; {0, token, owner, left, metadata, turn} held; {2, token, turn} held by others or
-- awaited; {-1} damaged. `left` is until the lease ends, `turn` until it can be the caller's turn.
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
local is_busy, period = record.held or record.shared > now, tonumber(ARGV[4])
if period > 1 then
  local me, front = stand(key, now, record, owner)
  if is_busy or front then
    queue_up(key, now, record, owner, period, me, front)
    return busy(now, record, front)
  end
else
  local first = first_alive(key, now, record)
  if first and first.owner == owner then first = nil end
  if is_busy or first then
    if period == 1 then mark(key, now, math.max(record.deadline, record.shared, first and first.alive or 0)) end
    return busy(now, record, first)
  end
end
withdraw(key, now, record, owner)
return grant(key, now, record, owner, ttl, ARGV[3])
