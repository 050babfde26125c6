-- KEYS: record. ARGV: channel, the lock's name to publish there, channel of the Cluster's node or ''.
-- {0} nobody held it; {1, token, owner, left, metadata} taken from him; {2} taken from others; {-1} replaced.
local key, now = KEYS[1], server_time()
local record = read(key, now)
local answer = { 0 }
if not record then
  -- A token that can be read still counts; one that can't was not above the clock, or was not granted here.
  local value = redis.pcall('HGET', key, 'token')
  local token = type(value) == 'string' and stored(value, 0) or 0
  redis.call('DEL', key)
  record = { token = math.min(math.max(token, now), MOST - 1), mark = 0 }
  redis.call('HSET', key, 'token', text(record.token))
  answer = { -1 }
elseif record.held then
  answer = { 1, text(record.token), record.owner, record.deadline - now, record.metadata }
elseif record.shared > now then
  answer = { 2 }
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 2) == 'h:' then redis.call('HDEL', key, field) end
  end
end
if record.token > 0 then
  redis.call('HDEL', key, 'owner', 'deadline', 'ttl', 'metadata', 'shared')
  keep(key, now, record.token, 0)
end
-- Whether somebody left a mark in what was replaced nobody knows.
announce(ARGV[1], ARGV[3], news(key, now, record, ARGV[2]) or '*' .. ARGV[2])
return answer
