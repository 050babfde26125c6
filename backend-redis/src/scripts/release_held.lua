-- The ordinary case, before anything else is defined, which would take longer: the owner holds the
-- lock, and nobody waits. The record's expiry is that of the lease, which is late enough. What follows
-- does the same, and all the rest.
do
  local key = KEYS[1]
  local value = redis.pcall('HMGET', key, 'owner', 'deadline', 'mark', 'shared', 'queue')
  local deadline = value[1] == ARGV[1] and not (value[3] or value[4] or value[5])
    and string.find(value[2] or '', '^%d+$') and tonumber(value[2])
  if deadline then
    local time = redis.call('TIME')
    if deadline > time[1] * 1000000 + time[2] then
      redis.call('HDEL', key, 'owner', 'deadline', 'ttl', 'metadata')
      return { 1 }
    end
  end
end
