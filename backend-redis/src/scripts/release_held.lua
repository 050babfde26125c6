-- The ordinary case, before anything else is defined, which would take longer: the owner holds the
-- lock, and nobody waits. The record's expiry is that of the lease, which is late enough. What follows
-- does the same, and all the rest.
do
  local key = KEYS[1]
  local value = redis.pcall('HMGET', key, 'owner', 'deadline', 'mark', 'shared', 'queue', 'token', 'ttl')
  local function number(text, most)
    local number = text and string.find(text, '^%d+$') and tonumber(text)
    return number and number <= most and number
  end
  local deadline = value[1] == ARGV[1] and not (value[3] or value[4] or value[5])
    and number(value[6], 9007199254740990) and number(value[2], 9007199254740991)
  local ttl = deadline and number(value[7], 9007199254740991)
  if ttl and ttl > 0 then
    local time = redis.call('TIME')
    if deadline > time[1] * 1000000 + time[2] then
      redis.call('HDEL', key, 'owner', 'deadline', 'ttl', 'metadata')
      return { 1 }
    end
  end
end
