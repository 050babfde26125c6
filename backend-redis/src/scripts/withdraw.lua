-- As release, whose arguments come first, without a next one, but nothing happens if the claim has made another attempt since
-- the one whose number comes last.
do
  local value = redis.pcall('HMGET', KEYS[1], 'owner', 'attempt')
  if value[1] == ARGV[1] and (tonumber(value[2] or '') or 0) > tonumber(ARGV[8]) then return { 0 } end
end
