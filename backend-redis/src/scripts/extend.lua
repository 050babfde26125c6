-- KEYS: records, and last the birth marker. ARGV: ttl, '1' to put back what was forgotten, the hold-off,
-- then owner and token for each record.
-- For each: 1 goes on; 0 not held any more; 2 held by another; 3 forgotten, and nobody had it since;
-- -1 damaged.
local now, ttl = server_time(), tonumber(ARGV[1])
local puts_back = ARGV[2] == '1' and hold_off(now, KEYS[#KEYS], tonumber(ARGV[3])) == 0
local results = {}

local function extend(key, owner, token)
  local record = read(key, now)
  if not record then return -1 end
  if record.held and record.owner == owner then
    if not agree(key, now, record, token) then return 0 end
  elseif record.held or record.shared > now then
    return 2
  else
    -- A record with this token and no owner was given up or taken away.
    local ran_out = record.owner == owner and record.token <= tonumber(token)
    if not ran_out and record.token >= tonumber(token) then return 0 end
    if not puts_back then return 3 end
    redis.call('HSET', key, 'token', token, 'agreed', token, 'owner', owner, 'ttl', text(ttl))
    record.token, record.deadline = tonumber(token), 0
  end
  local deadline = math.max(record.deadline, now + ttl)
  keep(key, now, record.token, deadline)
  redis.call('HSET', key, 'deadline', text(deadline), 'ttl', text(math.max(record.ttl, ttl)))
  return 1
end

for at = 1, #KEYS - 1 do
  results[at] = extend(KEYS[at], ARGV[2 * at + 2], ARGV[2 * at + 3])
end
return results
