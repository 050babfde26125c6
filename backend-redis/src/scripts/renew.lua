-- KEYS: records. ARGV: ttl, then owner and token for each record.
-- For each: 1 renewed, 0 not held any more, 2 held by another owner, -1 damaged.
local now, ttl = server_time(), tonumber(ARGV[1])
local results = {}
for at, key in ipairs(KEYS) do
  local record = read(key, now)
  if not record then
    results[at] = -1
  elseif record.held and record.owner == ARGV[2 * at] and text(record.token) == ARGV[2 * at + 1] then
    local deadline = math.max(record.deadline, now + ttl)
    -- In this order: a server that is out of memory refuses HSET as a script's first write, but not this.
    keep(key, now, record.token, deadline)
    redis.call('HSET', key, 'deadline', text(deadline), 'ttl', text(math.max(record.ttl, ttl)))
    results[at] = 1
  else
    results[at] = record.held and record.owner ~= ARGV[2 * at] and 2 or 0
  end
end
return results
