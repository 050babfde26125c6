-- KEYS: record. ARGV: owner, token.
-- {1} the owner holds the lock here with this token; {0} he does not hold it; {2} not with this token;
-- {-1} damaged.
local key, now = KEYS[1], server_time()
local record = read(key, now)
if not record then return { -1 } end
if not record.held or record.owner ~= ARGV[1] then return { 0 } end
return { agree(key, now, record, ARGV[2]) and 1 or 2 }
