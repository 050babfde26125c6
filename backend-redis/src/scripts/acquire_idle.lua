-- The ordinary case, before anything else is defined, which would take longer: nobody holds the lock
-- or queues for it, and it has a last token. What follows does the same, and all the rest.
do
  local key, text = KEYS[1], string.format
  local value = redis.pcall('HMGET', key, 'token', 'owner', 'deadline', 'ttl', 'shared', 'queue', 'mark')
  local last = value[1] and not (value[2] or value[3] or value[4] or value[5] or value[6])
    and string.find(value[1], '^%d+$') and tonumber(value[1])
  local mark = not value[7] and 0 or string.find(value[7], '^%d+$') and tonumber(value[7])
  if last and last < 9007199254740991 and mark and mark <= 9007199254740991 then
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local token, deadline = math.max(last + 1, now), now + ARGV[2]
    local token_text = text('%.0f', token)
    redis.call('HSET', key, 'token', token_text, 'owner', ARGV[1], 'deadline', text('%.0f', deadline),
      'ttl', ARGV[2], 'metadata', ARGV[3])
    redis.call('PEXPIREAT', key, text('%.0f', math.floor((math.max(token, deadline) + 86400000000) / 1000)))
    return { 1, token_text }
  end
end
