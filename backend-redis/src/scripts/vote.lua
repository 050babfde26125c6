-- KEYS: record, birth marker. ARGV: as acquire, the attempt's number, the hold-off.
-- As acquire, with 1 behind a token that the holder proposed and this node took over, else 0; {4, left} if
-- the node holds off.
local key, now, number = KEYS[1], server_time(), ARGV[5]
local record = read(key, now)
if record and not record.held then
  local left = hold_off(now, KEYS[2], tonumber(ARGV[6]))
  if left > 0 then return { 4, left } end
end
local answer = attempt()
if answer[1] == 1 then
  if answer[2] ~= text(record.token) then
    redis.call('HSET', key, 'before', text(record.token), 'attempt', number)
  elseif tonumber(redis.call('HGET', key, 'attempt') or '0') < tonumber(number) then
    redis.call('HSET', key, 'attempt', number)
  end
end
if answer[1] == 0 or answer[1] == 1 then
  answer[#answer + 1] = redis.call('HGET', key, 'agreed') == answer[2] and 1 or 0
end
return answer
